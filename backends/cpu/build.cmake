# What backends/cpu alone needs. Eigen is renamed so that a user's own Eigen, compiled with other flags,
# cannot clash with this copy.
target_link_libraries(${room_target} PRIVATE Eigen3::Eigen)
target_compile_definitions(${room_target} PRIVATE Eigen=keel_eigen)
if(KEEL_NATIVE)
  foreach(flag -march=native -mprefer-vector-width=512)
    string(MAKE_C_IDENTIFIER "keel_has${flag}" has_flag)
    check_cxx_compiler_flag(${flag} ${has_flag})
    if(${has_flag})
      target_compile_options(${room_target} PRIVATE ${flag})
    endif()
  endforeach()
endif()
