"""llama.cpp's own HTTP server over a model file, as a process of its own.

Prints its address once it listens, and serves until it is ended:

    python -m tests.llama_server model.gguf [--context 4096]
"""

from __future__ import annotations

import argparse
import signal

import xllamacpp


def start(path: str, context: int) -> xllamacpp.Server:
    """Return a server on loopback with the settings of the llama engine, one thread."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = context, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = 0
    params.fit_params = params.warmup = params.ui = False
    params.verbosity = -1
    params.hostnames, params.port = ["127.0.0.1"], 0
    return xllamacpp.Server(params)


def main() -> None:
    """Serve the model that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--context", type=int, default=4096)
    arguments = parser.parse_args()
    server = start(arguments.path, arguments.context)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
