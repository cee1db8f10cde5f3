module semblance/toolchain/pause

go 1.26.0
