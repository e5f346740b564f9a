# What backends/cpu alone needs. Eigen is renamed so that a user's own Eigen, compiled with other flags,
# cannot clash with this copy.
target_link_libraries(${room_target} PRIVATE Eigen3::Eigen)
target_compile_definitions(${room_target} PRIVATE Eigen=keel_eigen)

# Eigen's products are the only code that is compiled for this machine's processor.
set(product_options "")
if(KEEL_NATIVE)
  foreach(flag -march=native -mprefer-vector-width=512)
    string(MAKE_C_IDENTIFIER "keel_has${flag}" has_flag)
    check_cxx_compiler_flag(${flag} ${has_flag})
    if(${has_flag})
      list(APPEND product_options ${flag})
    endif()
  endforeach()
endif()
# g++ 12 warns of its own AVX-512 intrinsics ('__Y' is used uninitialized) where Eigen inlines them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND product_options -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
# The room's precompiled header is compiled without these flags.
set_source_files_properties(${room_dir}/matmul.cpp PROPERTIES
  COMPILE_OPTIONS "${product_options}" SKIP_PRECOMPILE_HEADERS ON)
