# Variables: build_dir (of Keel), source_dir (of the consumer), work_dir (scratch), compiler, library_dir
# (below the prefix), sanitize, version, shared (whether
# the library is; a static one takes no plugins).

cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

# check_consumer(<program> <argument>...): the program runs and prints the version it was built against.
function(check_consumer program)
  run("Running ${program}" ${program} ${ARGN})
  if(NOT run_output MATCHES "keel ${version}")
    message(FATAL_ERROR "${program} printed:\n${run_output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work_dir})
set(prefix ${work_dir}/prefix)
run("Installing" ${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix})
foreach(file include/keel/keel.h ${library_dir}/pkgconfig/keel.pc
        ${library_dir}/cmake/keel/keelConfig.cmake bin/keel)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "The installation lacks ${file}")
  endif()
endforeach()
run("The installed tool" ${prefix}/bin/keel --version)

set(flags "")
if(sanitize)
  set(flags -fsanitize=${sanitize})
endif()
run("Configuring the consumer" ${CMAKE_COMMAND} -G Ninja -S ${source_dir} -B ${work_dir}/build
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_FLAGS=${flags})
run("Building the consumer" ${CMAKE_COMMAND} --build ${work_dir}/build)
set(plugin "")
if(shared)
  set(plugin ${work_dir}/build/libplugin.so)
endif()
check_consumer(${work_dir}/build/consumer ${plugin})

find_program(pkg_config pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${library_dir}/pkgconfig)
run("pkg-config" ${pkg_config} --cflags --libs keel)
string(STRIP "${run_output}" pc_flags)
separate_arguments(pc_flags UNIX_COMMAND "${pc_flags}")
run("Compiling with pkg-config" ${compiler} -std=c++20 ${flags} ${source_dir}/main.cpp
    -o ${work_dir}/pc_consumer ${pc_flags})
# It says itself where the library is: no LD_LIBRARY_PATH, no flag beside those of pkg-config.
check_consumer(${work_dir}/pc_consumer ${plugin})
