# Installs Keel, builds examples/out_of_tree_backend against the installation alone, and lets the installed
# tool check and use it. Variables: build_dir (of Keel), source_dir (of the backend), work_dir (scratch),
# compiler, sanitize.

cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

# require(<what> <regular expression>): of ${run_output}.
function(require what expression)
  if(NOT run_output MATCHES "${expression}")
    message(FATAL_ERROR "${what} lacks '${expression}':\n${run_output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work_dir})
set(prefix ${work_dir}/prefix)
run("Installing" ${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix})

# A copy, so that nothing of the source tree can be found beside it.
file(COPY ${source_dir}/ DESTINATION ${work_dir}/source)
set(flags "")
if(sanitize)
  set(flags -fsanitize=${sanitize})
endif()
run("Configuring the backend" ${CMAKE_COMMAND} -G Ninja -S ${work_dir}/source -B ${work_dir}/build
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_FLAGS=${flags})
run("Building the backend" ${CMAKE_COMMAND} --build ${work_dir}/build)

set(keel ${prefix}/bin/keel)
set(plugin --plugin ${work_dir}/build/blocks.so)
run("The list of devices" ${keel} info ${plugin})
require("The list of devices" "blocks:0")

run("The backend's scorecard" ${keel} conformance ${plugin} --backend blocks --cases 20
    --json ${work_dir}/scorecard.json)
require("The scorecard" ", 0 fail")
file(READ ${work_dir}/scorecard.json scorecard)
string(JSON failed GET "${scorecard}" counts fail)
string(JSON passed GET "${scorecard}" counts pass)
if(NOT failed EQUAL 0 OR passed LESS 100)
  message(FATAL_ERROR "The scorecard counts ${passed} passed and ${failed} failed")
endif()

run("A training" ${keel} train ${plugin} --backend blocks --steps 20 --summary ${work_dir}/summary.json)
run("The task list" ${keel} graph ${plugin} --compiled --backend blocks)
require("The task list" "AI_VECTOR_CORE")
