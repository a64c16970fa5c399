"""Names that NCCL itself doesn't read, and that work: of plugins and vendors, of builds, of other programs.

They are here so that nobody is told that such a name is a slip.
"""

from __future__ import annotations

from functools import partial

from ncclrun.nccl.catalogue.known import Known

_Plugin = partial(Known, side="plugin", documented=False, source="public files and sources")
_Tool = partial(Known, side="tool", conf=False, documented=False, source="public files and sources")

PLUGINS: tuple[Known, ...] = (
    _Plugin("NCCL_GPUDIRECTTCPX_*", "Google's GPUDirect-TCPX"),
    _Plugin("NCCL_FASTRAK_*", "Google's GPUDirect-TCPXO (FasTrak)"),
    _Plugin("NCCL_SHIMNET_*", "Google's shim that checks a guest's settings"),
    _Plugin("NCCL_DYNAMIC_CHUNK_SIZE", "Google's NCCL for GPUDirect-TCPX"),
    _Plugin("NCCL_USE_SNAP", "Google's GPUDirect-TCPXO"),
    _Plugin("NCCL_GIB_*", "Google's gIB"),
    _Plugin("NCCL_TUNER_CONFIG_PATH", "settings of Google's tuner", kind="text"),
    _Plugin("NCCL_TUNER_CONFIG_FILE", "settings of the example tuner", kind="text"),
    _Plugin("NCCL_TUNER_*", "a tuner"),
    _Plugin("NCCL_PROFILE_*", "NCCL's example profiler"),
    _Plugin("NCCL_PROFILER_*", "a profiler"),
    _Plugin("NCCL_INSPECTOR_*", "NVIDIA's inspector, a profiler"),
    _Plugin("OFI_NCCL_*", "AWS's network library for EFA"),
    _Plugin("NCCL_OFI_*", "AWS's network library for EFA"),
    _Plugin("NCCL_NET_OFI_*", "AWS's network library for EFA"),
    _Plugin("NCCL_PLUGIN_P2P", "which network NVIDIA's HPC-X library uses: ib, ucx, ucx_rma, ucx_uct"),
    _Plugin("NCCL_IBEXT_*", "NVIDIA's HPC-X library"),
    _Plugin("NCCL_UCX_*", "NVIDIA's HPC-X library over UCX"),
    _Plugin("NCCL_SHARP_*", "NVIDIA's HPC-X library, SHARP"),
    _Plugin("SHARP_*", "NVIDIA's SHARP"),
    _Plugin("NVSHMEM_*", "NVIDIA's NVSHMEM, which torch's symmetric memory can use"),
    _Plugin("NCCL_SPECTRUMX_*", "NVIDIA's Spectrum-X library"),
    _Plugin("NCCL_SPCX_*", "NVIDIA's Spectrum-X library"),
    _Plugin("NCCL_ACCL_*", "Alibaba's ACCL"),
    _Plugin("NCCL_BCCL_*", "Baidu's BCCL"),
    _Plugin("NCCL_TCCL_*", "Tencent's TCCL"),
    _Plugin("NCCL_VCCL_*", "VCCL"),
    _Plugin("NCCL_CTRAN_*", "Meta's NCCLX"),
    _Plugin("NCCL_COMM_STATE_*", "Meta's NCCLX"),
    _Plugin("NCCL_COLLTRACE*", "Meta's NCCLX"),
    _Plugin("NCCL_PROXYTRACE*", "Meta's NCCLX"),
    _Plugin("NCCL_FAST_INIT_MODE", "Meta's NCCLX"),
    _Plugin("NCCL_IGNORE_TOPO_LOAD_FAILURE", "Meta's NCCLX"),
    _Plugin("RCCL_*", "AMD's RCCL"),
    _Plugin("NCCL_RCCL_*", "AMD's RCCL"),
    _Plugin("NCCL_NCHANNELS_PER_PEER", "AMD's RCCL, and NCCL before 2.18"),
    _Plugin("NCCL_HYGON_*", "Hygon's RCCL"),
    _Plugin("NCCL_MSCCL*", "Microsoft's MSCCL"),
    _Plugin("MSCCL*", "Microsoft's MSCCL"),
    _Plugin("SCCL_*", "Microsoft's SCCL"),
    _Plugin("NCCL_NUM_MOCK_*", "simulators of NCCL"),
)

SCRIPTS_OWN: tuple[Known, ...] = (
    _Tool("NCCL_TIMEOUT", "no variable of NCCL's or torch's; some scripts take init_process_group(timeout=…) from it"),
    _Tool("NCCL_TIMEOUT_*", "no variable of NCCL's or torch's; some scripts read it"),
    _Tool("NCCL_LOG_FILE", "no variable of NCCL's (that is NCCL_DEBUG_FILE); scripts name files of theirs so"),
    _Tool("NCCL_OP_TIMEOUT", "no variable of NCCL's or torch's; some scripts read it"),
)
"""Names that look like NCCL's, and that only scripts read, if anybody."""
TOOLS: tuple[Known, ...] = (
    *(
        _Tool(name, "where NCCL is, for builds")
        for name in (
            *("NCCL_HOME", "NCCL_ROOT", "NCCL_ROOT_DIR", "NCCL_DIR", "NCCL_PATH", "NCCL_BASE", "NCCL_PREFIX"),
            *("NCCL_INCLUDE", "NCCL_INCLUDE_DIR", "NCCL_INCLUDE_DIRS", "NCCL_INCLUDE_PATH", "NCCL_LIB", "NCCL_LIBDIR"),
            *(
                "NCCL_LIB_DIR",
                "NCCL_LIB_PATH",
                "NCCL_LIBRARY",
                "NCCL_LIBRARIES",
                "NCCL_LIBRARY_PATH",
                "NCCL_LD_LIBRARY_PATH",
            ),
            *("NCCL_SRC", "NCCL_SRC_DIR", "NCCL_SOURCE_DIR", "NCCL_BUILD", "NCCL_BUILD_DIR", "NCCL_INSTALL_DIR"),
            *("NCCL_INSTALL_PATH", "NCCL_HDR_PATH", "NCCL_BIN", "NCCL_BIN_DIR"),
        )
    ),
    *(
        _Tool(name, "which NCCL, for builds")
        for name in (
            *("NCCL_VERSION", "NCCL_VER", "NCCL_TAG", "NCCL_BRANCH", "NCCL_COMMIT", "NCCL_REPO", "NCCL_MAJOR"),
            *("NCCL_MINOR", "NCCL_PATCH", "NCCL_SUFFIX", "NCCL_GENCODE", "NCCL_NVCC_GENCODE", "NCCL_CUDA_VERSION"),
            *("NCCL_VERSION_TAG", "NCCL_PACKAGE", "NCCL_MAJOR_VERSION"),
        )
    ),
    *(
        _Tool(name, "builds and installers")
        for name in (
            "NV_LIBNCCL_*",
            "HOROVOD_NCCL_*",
            "USE_SYSTEM_NCCL",
            "USE_NCCL",
            "USE_STATIC_NCCL",
            "TF_NCCL_VERSION",
            "TF_NCCL_*",
            "NCCL_VERSION_*",
            "NCCL_URL",
            "NCCL_TEST_*",
            "NCCL_TESTS*",
        )
    ),
    _Tool("LD_LIBRARY_PATH", "where libraries are looked for; read when a program starts"),
    _Tool("LD_PRELOAD", "libraries to load first; read when a program starts", loads_code=True),
    _Tool("VLLM_NCCL_SO_PATH", "the NCCL that vLLM loads", loads_code=True),
    _Tool("SGLANG_NCCL_SO_PATH", "the NCCL that SGLang loads", loads_code=True),
    _Tool("FLAGS_nccl_*", "Paddle"),
    _Tool("CUDA_VISIBLE_DEVICES", "which GPUs CUDA shows to a process, and in which order"),
    *SCRIPTS_OWN,
)
