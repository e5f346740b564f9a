# What backends/common alone needs: Highway, for the vector library. No processor flags here: Highway
# dispatches at run time, and -march=native would leave it one target only.
target_link_libraries(${room_target} PRIVATE hwy::hwy)
# Few processors have SSSE3 and no SSE4.1 (Core 2 of 2006, the first Atoms, AMD's Bobcat): they compute with the scalar
# kernels. Code for them would be a fifth of what kernels take to compile.
target_compile_definitions(${room_target} PRIVATE HWY_DISABLED_TARGETS=HWY_SSSE3)
