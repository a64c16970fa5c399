"""Libraries and programs that are missing, double, or of the wrong kind."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight

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
        cure="pip install nvidia-nccl-cu12   in that environment; for Paddle besides a link  libnccl.so -> "
        "libnccl.so.2  in a directory on LD_LIBRARY_PATH, set in launch.env",
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
        cure="pip list | grep nvidia-nccl; ldconfig -p | grep nccl; echo $LD_LIBRARY_PATH   on {host}; remove the "
        "older, or unset LD_LIBRARY_PATH",
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
        cure="python -c 'import torch; print(torch.__version__, torch.version.cuda)'   on {host}, then install the "
        "build for its CUDA",
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
        cure="torch.distributed.is_nccl_available()",
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
        cure="unset NCCL_NET NCCL_NET_PLUGIN   on {host};  ncclrun nccl show CLUSTER  says where they are set",
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
        pattern=r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'",
        sample="ModuleNotFoundError: No module named 'einops'",
        cause="The Python that ran on {host} is another one, or its environment lacks {name}.",
        cure="of a package: pip install {name}   on {host}, or the Python that has it as launch.python in the cluster "
        "file; a module of your own must lie beside the script (what .gitignore leaves out does not travel)",
        check="`ncclrun ping` shows which Python each node would use, and its torch",
    ),
    Signature(
        id="ssh-nocmd",
        title="A program is not on the PATH of a session without a terminal",
        weight=Weight.CAUSE,
        words=("not found", "exitcode 127", "exit status 127"),
        pattern=r"(?:torchrun|python3?|deepspeed|conda): (?:command )?not found|\(exitcode 127\)|exit status 127",
        sample="bash: line 1: torchrun: command not found",
        cause="Over SSH without a terminal .bashrc is left at its first lines, before conda or the environment is "
        "set up.",
        cure="launch.python: /path/to/env/bin/python   in the cluster file (ncclrun then needs no PATH)",
        check="`ncclrun ping` shows which Python each node would use",
        doctor=("no_python",),
    ),
    Signature(
        id="ssh-path",
        title="A file or directory is not there on this host",
        weight=Weight.CAUSE,
        words=("No such file or directory", "can't open file"),
        pattern=r"bash: (?:line \d+: )?(?:cd: )?(?P<path>/[^\s:]+): No such file or directory|"
        r"can't open file '(?P<file>[^']+)'",
        sample="gpu8: bash: /home/ada/env/bin/python: No such file or directory",
        cause="The path exists where it was typed and not on {host}: no shared disk, or another home.",
        cure="ncclrun launch CLUSTER SCRIPT   sends the script's directory along; launch.python may differ by node",
        check="each node is asked for its Python, and the script is hashed on every node, before anything starts",
    ),
)
