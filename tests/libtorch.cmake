# Defines the target keel_libtorch where libtorch-dev is installed: for benchmarks, and for tests that take it as a
# peer. It is large, so nothing installs it, and nothing needs it. Debian's own package files would ask for all that
# libtorch was built with.
if(TARGET keel_libtorch)
  return()
endif()
find_path(torch_include torch/torch.h PATHS /usr/include/torch/csrc/api/include)
find_library(torch_library torch)
find_library(torch_cpu_library torch_cpu)
find_library(c10_library c10)
if(torch_include AND torch_library AND torch_cpu_library AND c10_library)
  add_library(keel_libtorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(keel_libtorch SYSTEM INTERFACE ${torch_include})
  target_link_libraries(keel_libtorch INTERFACE ${torch_library} ${torch_cpu_library} ${c10_library})
endif()
