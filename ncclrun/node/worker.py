"""What torchrun runs for each worker: it names itself to the supervisor, takes its rank's pipes, becomes the worker."""

# A constant: no value is ever written into it. `$$` stays the worker's process id, since exec keeps it.
# With NCCLRUN_STACKS the worker, and not torchrun, is armed to tell its stacks (stackarm.py).
# One short printf is one write to the FIFO, so that the lines of several workers don't mix.
SCRIPT = """\
printf '%s %s %s %s\\n' "$LOCAL_RANK" "$$" "$RANK" "${TORCHELASTIC_ERROR_FILE-}" > "$NCCLRUN_PIPES/ranks"
if [ -n "${NCCLRUN_STACKS-}" ]; then
    PYTHONPATH="$NCCLRUN_STACKS${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH
fi
exec "$@" > "$NCCLRUN_PIPES/$LOCAL_RANK.out" 2> "$NCCLRUN_PIPES/$LOCAL_RANK.err"
"""
