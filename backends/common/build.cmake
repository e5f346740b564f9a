# What backends/common alone needs: Highway, for the vector library. No processor flags here: Highway
# dispatches at run time, and -march=native would leave it one target only.
target_link_libraries(${room_target} PRIVATE hwy::hwy)
# Few processors have SSSE3 and no SSE4.1 (Core 2 of 2006, the first Atoms, AMD's Bobcat): they compute with the scalar
# kernels. Code for them would be a fifth of what kernels take to compile.
target_compile_definitions(${room_target} PRIVATE HWY_DISABLED_TARGETS=HWY_SSSE3)

# Highway includes such a source once for each instruction set, by macros that only one source of a unit can define.
foreach(source ${sources})
  file(STRINGS ${source} highway_lines REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
  if(highway_lines)
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endforeach()
