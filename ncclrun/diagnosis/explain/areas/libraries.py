"""Libraries and programs that are missing, double, or of the wrong kind."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, again, here, say, there

_CHECK = "`ncclrun ping` and `launch` ask the training's Python on each node for torch and NCCL"

SIGNATURES = (
    Signature(
        id="libnccl-missing",
        title="libnccl.so is not found",
        weight=Weight.CAUSE,
        words=("libnccl.so",),
        pattern=r"libnccl\.so(?:\.\d+)?: cannot open shared object file|third-party dynamic library \(libnccl\.so\)",
        sample="(error code is libnccl.so: cannot open shared object file: No such file or directory)",
        cause="NCCL is not installed on {host}, or not on the loader's path in a session that reads no .bashrc. "
        "Paddle asks for the name without a version, which only "
        "development packages have.",
        cure=(
            there("pip install nvidia-nccl-cu12", note="in the environment that runs the training"),
            here(
                "ncclrun doctor {cluster}",
                note="the ways for that host's CUDA and distribution; for Paddle the link that it needs",
            ),
        ),
        check=_CHECK,
        doctor=("nccl_missing", "paddle_no_nccl"),
    ),
    Signature(
        id="nccl-symbol",
        title="An older libnccl is found before torch's own",
        weight=Weight.CAUSE,
        words=("undefined symbol: nccl",),
        pattern=r"libtorch_cuda\S*: undefined symbol: (?P<name>nccl\w+)",
        sample="ImportError: /opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
        "ncclCommRegister",
        cause="LD_LIBRARY_PATH, a system package, or a second nvidia-nccl package (cu11 beside cu12), or a library "
        "that was imported first brings one without {name}.",
        cure=(
            there(
                "pip list | grep nvidia-nccl; ldconfig -p | grep nccl; echo $LD_LIBRARY_PATH",
                note="which there are: remove the older",
            ),
            again("--env LD_LIBRARY_PATH=", "torch's own before all others"),
        ),
        check=_CHECK,
        doctor=("nccl_clash", "nccl_several", "nccl_override"),
    ),
    Signature(
        id="cpu-torch",
        title="This torch was built without NCCL",
        weight=Weight.CAUSE,
        words=("have NCCL built in", "Torch not compiled with CUDA enabled"),
        pattern=r"Distributed package doesn't have NCCL built in|Torch not compiled with CUDA enabled",
        sample="RuntimeError: Distributed package doesn't have NCCL built in",
        cause="The CPU build of torch is installed on {host} (or torch is not for Linux).",
        cure=(
            there(
                "python3 -c 'import torch; print(torch.__version__, torch.version.cuda)'",
                note="with the Python that runs the training",
            ),
            here("ncclrun doctor {cluster}", note="the build for that host's driver"),
        ),
        check=_CHECK,
        doctor=("torch_cpu",),
    ),
    Signature(
        id="nccl-is-available",
        title="The check itself is wrong: that function wants tensors",
        weight=Weight.CAUSE,
        words=("is_available() missing 1 required positional argument",),
        sample="TypeError: is_available() missing 1 required positional argument: 'tensors'",
        cause="torch.cuda.nccl.is_available judges tensors; it does not say whether NCCL is there.",
        cure=(say("torch.distributed.is_nccl_available() says whether NCCL is there."),),
    ),
    Signature(
        id="net-not-found",
        title="The network plugin that NCCL is told to use is not there",
        weight=Weight.CAUSE,
        words=("Error: network", "Failed to initialize any NET plugin"),
        pattern=r"Error: network \S* ?not found|Failed to initialize any NET plugin",
        sample="gpu1:9:9 [0] NCCL WARN Failed to initialize any NET plugin",
        cause="NCCL_NET or NCCL_NET_PLUGIN names something that {host} does not have; or no interface is left, so "
        "that sockets fail too.",
        cure=(here("ncclrun nccl show {cluster}", note="who sets NCCL_NET or NCCL_NET_PLUGIN: take it out"),),
        check="`ncclrun nccl show` tells such settings of every node",
    ),
    Signature(
        id="plugin-none",
        title="No network plugin is installed",
        weight=Weight.HARMLESS,
        words=("NET/Plugin", "o plugin found (libnccl-net.so)", "libnccl-net"),
        pattern=r"NET/Plugin ?:? ?(?:No plugin found|Could not find)|No plugin found \(libnccl-net\.so\)|"
        r"Plugin load \(libnccl-net\.so\) returned|Could not find: libnccl-net",
        sample="gpu1:9:9 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        cause="NCCL has transports of its own and uses these. Almost every log says so.",
    ),
    Signature(
        id="modmissing",
        title="A Python module is missing",
        weight=Weight.CAUSE,
        words=("No module named ",),
        pattern=r"ModuleNotFoundError: No module named '(?P<name>\w+)",
        sample="ModuleNotFoundError: No module named 'einops'",
        cause="The Python that ran on {host} is another one, or its environment lacks {name}.",
        cure=(
            there("pip install {name}", note="of a package: in the environment that runs the training"),
            here("ncclrun ping {cluster}", note="which Python each node would use: launch.python names another"),
            say("A module of your own is to lie beside the script; what .gitignore leaves out does not travel."),
        ),
        check="`ncclrun ping` shows which Python each node would use, and its torch",
    ),
    Signature(
        id="ssh-nocmd",
        title="A program is not on the PATH of a session without a terminal",
        weight=Weight.CAUSE,
        words=("/usr/bin/env: ", "execve(): ", "not found", "exitcode 127", "exit status 127"),
        pattern=r"/usr/bin/env: \S+: No such file|execve\(\): \S+: No such file|"
        r"(?:torchrun|python3?|deepspeed|conda): (?:command )?not found|\(exitcode 127\)|exit status 127",
        sample="bash: line 1: torchrun: command not found",
        cause="Over SSH without a terminal .bashrc is left at its first lines, before conda or the environment is "
        "set up.",
        cure=(
            there(
                "bash -lic 'command -v torchrun python3'",
                note="where your own shell finds them: write that Python into launch.python of the cluster file",
            ),
        ),
        check="`ncclrun ping` shows which Python each node would use",
        doctor=("no_python",),
    ),
    Signature(
        id="ssh-path",
        title="A file or directory is not there on this host",
        weight=Weight.CAUSE,
        words=("No such file or directory", "can't open file"),
        pattern=r"FileNotFoundError: \[Errno 2\] No such file or directory: "
        r"['\"](?!/tmp/pymp|/dev/shm)(?P<path__>[^'\"]+)|"
        r"bash: (?:line \d+: )?(?:cd: )?(?P<path>/[^\s:]+): No such file or directory|"
        r"can't open file '(?P<path_>[^']+)'",
        sample="gpu8: bash: /home/ada/env/bin/python: No such file or directory",
        cause="The path exists where it was typed and not on {host}: no shared disk, or another home.",
        cure=(
            there("ls -ld {path}"),
            here(
                LAUNCH,
                note="sends the script's directory along; launch.python may differ by node",
            ),
        ),
        check="each node is asked for its Python, and the script is hashed on every node, before anything starts",
        likely=True,
    ),
    Signature(
        id="cuda-lib",
        title="A library of CUDA is not found",
        weight=Weight.CAUSE,
        words=("cannot open shared object file",),
        pattern=r"(?:Error|error while loading shared libraries): "
        r"(?P<name>lib(?:cu(?!da\.)\w+|nv(?!idia-ml)\w+)\.so[\w.]*): cannot open shared object file",
        sample="ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        cause="{name} is not on the loader's path on {host}: a package or extension was built for another CUDA "
        "than the one that is installed, or LD_LIBRARY_PATH was set in a .bashrc that no SSH session reads.",
        cure=(
            there("ldconfig -p | grep {name}; pip list | grep -i nvidia", note="what there is"),
            say(
                "Install the build for that CUDA (torch brings its own libraries), or set LD_LIBRARY_PATH in "
                "launch.env."
            ),
        ),
        check=_CHECK,
        over=("process-ended",),
        doctor=("torch_broken",),
    ),
    Signature(
        id="lib-symbol",
        title="Two libraries do not fit together",
        weight=Weight.CAUSE,
        words=("undefined symbol: ",),
        pattern=r"(?<!\S)(?P<path>\S+): undefined symbol: (?!nccl)\w+",
        sample="ImportError: "
        "/opt/env/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: "
        "undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
        cause="{path} was built against another version than the one that is loaded: an extension (flash-attn, "
        "apex, deepspeed) for another torch, or LD_LIBRARY_PATH brings an older library of CUDA before "
        "torch's own.",
        cure=(
            again("--env LD_LIBRARY_PATH=", "torch's own before all others"),
            there("ldd {path} | grep -e found -e nvidia -e torch", note="what it would load"),
            say("An extension: build or install it anew for this torch."),
        ),
        over=("process-ended",),
        doctor=("torch_broken", "cudart_override"),
        likely=True,
    ),
    Signature(
        id="libc-old",
        title="The host's C or C++ library is older than a package needs",
        weight=Weight.CAUSE,
        words=("GLIBC_", "GLIBCXX_", "CXXABI_"),
        pattern=r"version `(?P<value>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found",
        sample="ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by "
        "/opt/env/lib/python3.11/site-packages/flash_attn_2_cuda.so)",
        cause="{value} is missing on {host}: its system is older than the one on which the package was built, or "
        "conda's libstdc++ is not the one that is loaded.",
        cure=(
            there("ldd --version | head -1; ls $CONDA_PREFIX/lib/libstdc++.so.6", note="what it has"),
            say(
                "Build the package there, use one image on all hosts, or put conda's lib directory into "
                "LD_LIBRARY_PATH (GLIBCXX alone)."
            ),
        ),
        over=("process-ended",),
    ),
    Signature(
        id="cuda-mismatch",
        title="The CUDA compiler is of another version than torch's CUDA",
        weight=Weight.CAUSE,
        words=("does not match the version torch was compiled with", "mismatches the version that was used to compile"),
        sample="CUDAMismatchException: Installed CUDA version 11.8 does not match the version torch was compiled "
        "with 12.1",
        cause="An extension (DeepSpeed's, apex, flash-attn) is built on {host} with the nvcc that is found "
        "there, which is of another CUDA than torch.",
        cure=(
            there("nvcc --version | tail -2; python3 -c 'import torch; print(torch.version.cuda)'", note="both"),
            say("Point CUDA_HOME to the CUDA that torch has, or install the torch for the CUDA that is there."),
        ),
        over=("process-ended",),
    ),
    Signature(
        id="exec-format",
        title="A program is for another kind of processor",
        weight=Weight.CAUSE,
        words=("xec format error",),
        sample="gpu5: bash: /opt/env/bin/python: cannot execute binary file: Exec format error",
        cause="{host} is of another architecture (aarch64 beside x86_64) than the environment or image that was "
        "copied to it.",
        cure=(
            there("uname -m", note="what it is"),
            say("Make the environment anew there, or take an image for that architecture."),
        ),
    ),
)
