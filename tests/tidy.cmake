# The laws of style as tests: tidy is quick and own code, clang_format and clang_tidy are Debian's.
fm_test(tidy_test SOURCES tidy_test.cc tidy/laws_test.cc tidy/laws.cc tidy/text_laws.cc
                          tidy/source.cc tidy/scopes.cc LABELS tidy)
target_compile_definitions(tidy_test PRIVATE FM_SOURCE_ROOT="${PROJECT_SOURCE_DIR}")

add_test(NAME clang_format COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_format.sh)
set_tests_properties(clang_format PROPERTIES LABELS tidy TIMEOUT 120)

add_test(NAME clang_tidy COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_clang_tidy.sh
                                 ${PROJECT_BINARY_DIR})
set_tests_properties(clang_tidy PROPERTIES LABELS lint TIMEOUT 900 PROCESSORS 2)

# The torch-free targets once more, each sanitizer in a build folder of its own.
foreach(sanitizer IN ITEMS asan:address,undefined tsan:thread)
  string(REPLACE ":" ";" parts ${sanitizer})
  list(GET parts 0 name)
  list(GET parts 1 kinds)
  add_test(NAME sanitize_${name} COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_sanitized.sh ${kinds}
                                         ${PROJECT_SOURCE_DIR}/build-${name})
  set_tests_properties(sanitize_${name} PROPERTIES LABELS sanitize TIMEOUT 1800 PROCESSORS 2)
endforeach()

add_test(NAME install_tree COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_install.sh
                                   ${PROJECT_BINARY_DIR})
set_tests_properties(install_tree PROPERTIES LABELS system TIMEOUT 120)
