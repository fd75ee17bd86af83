# The laws of style as tests: tidy is quick and own code, clang_format Debian's, clang_tidy PyPI's.
fm_test(tidy_test SOURCES tidy_test.cc tidy/laws_test.cc tidy/laws.cc tidy/text_laws.cc
                          tidy/documents_test.cc tidy/documents.cc tidy/source.cc tidy/scopes.cc
                          tidy/type_names.cc LABELS tidy)
target_compile_definitions(tidy_test PRIVATE FM_SOURCE_ROOT="${PROJECT_SOURCE_DIR}")

add_test(NAME clang_format COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_format.sh)
set_tests_properties(clang_format PROPERTIES LABELS tidy TIMEOUT 1200)

add_test(NAME clang_tidy COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_clang_tidy.sh
                                 ${PROJECT_BINARY_DIR})
set_tests_properties(clang_tidy PROPERTIES LABELS lint TIMEOUT 7200 PROCESSORS 2)

# The torch-free tests once more, each sanitizer in a build folder of its own: for addresses the
# folders that parse foreign files or keep bytes, for threads those where something runs on several.
set(check_sanitized ${PROJECT_SOURCE_DIR}/scripts/check_sanitized.sh)
add_test(NAME sanitize_asan
         COMMAND ${check_sanitized} address,undefined ${PROJECT_SOURCE_DIR}/build-asan
                 core comm machine text/jinja text/chat text/data text/tokenizer text/prepare
                 observe/monitor observe/report observe/blackbox offload model checkpoint launch)
add_test(NAME sanitize_tsan COMMAND ${check_sanitized} thread ${PROJECT_SOURCE_DIR}/build-tsan
                                    core comm comm/nccl offload text/prepare)
set_tests_properties(sanitize_asan sanitize_tsan PROPERTIES LABELS sanitize TIMEOUT 10800 PROCESSORS 2)

add_test(NAME install_tree COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_install.sh
                                   ${PROJECT_BINARY_DIR})
set_tests_properties(install_tree PROPERTIES LABELS system TIMEOUT 1200)
