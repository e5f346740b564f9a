# What backends/common alone needs: Highway, for the vector library. No processor flags here: Highway
# dispatches at run time, and -march=native would leave it one target only.
target_link_libraries(${room_target} PRIVATE hwy::hwy)
