# What backends/common alone needs: Highway, for the vector library. No processor flags here: Highway
# dispatches at run time, and -march=native would leave it one target only.
target_link_libraries(${room_target} PRIVATE hwy::hwy)
# Every x86 processor since 2008 that has SSSE3 has SSE4.1, too: code for it alone would be a fifth of what kernels take
# to compile, and nobody would run it.
target_compile_definitions(${room_target} PRIVATE HWY_DISABLED_TARGETS=HWY_SSSE3)
