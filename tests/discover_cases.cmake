# Lists the cases of a doctest binary and writes the CTest script that adds one test for each.
# Variables: executable, label (of the folder), timeout (seconds), script (output).
#
# doctest's own module starts the binary once for every case to learn its suite; the XML listing says it
# all at once. A name may not hold what CMake lists or doctest filters give a meaning to.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${executable} --list-test-cases --reporters=xml --no-version
                OUTPUT_VARIABLE listing RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${executable} cannot list its test cases (${result}):\n${errors}")
endif()

string(REPLACE "&lt;" "<" listing "${listing}")
string(REPLACE "&gt;" ">" listing "${listing}")
string(REPLACE "&amp;" "&" listing "${listing}")
if(listing MATCHES "<TestCase [^\n]*name=\"([^\"]*([];,*\\[]|&quot)[^\"]*)\"")
  message(FATAL_ERROR "A test name may not contain ; , * \\ [ ] or \": ${CMAKE_MATCH_1}")
endif()
string(REGEX MATCHALL "<TestCase [^\n]*" cases "${listing}")
set(names "")
set(text "")
foreach(case IN LISTS cases)
  string(REGEX MATCH " name=\"([^\"]*)\"" name "${case}")
  set(name "${CMAKE_MATCH_1}")
  set(labels ${label})
  if(case MATCHES " testsuite=\"([^\"]*)\"")
    list(APPEND labels "${CMAKE_MATCH_1}")
    list(REMOVE_DUPLICATES labels)
  endif()
  # What measures time is wrong beside others.
  set(alone "")
  if("alone" IN_LIST labels)
    set(alone " RUN_SERIAL ON")
  endif()
  if(name IN_LIST names)
    message(FATAL_ERROR "Two test cases of ${executable} are called '${name}'")
  endif()
  list(APPEND names "${name}")
  string(APPEND text "add_test([==[${label}.${name}]==] [==[${executable}]==] [==[--test-case=${name}]==])
set_tests_properties([==[${label}.${name}]==] PROPERTIES LABELS \"${labels}\" TIMEOUT ${timeout}${alone}
  SKIP_RETURN_CODE 77)\n")
endforeach()
if(NOT names)
  message(FATAL_ERROR "${executable} holds no test case")
endif()
file(WRITE ${script} "${text}")
