# Compiler settings shared by every target, and the one way to declare a library or a test.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()
find_program(FM_CCACHE ccache)
if(FM_CCACHE)
  # Where its folder cannot be written (a home over quota, a container's), it compiles nothing.
  set(fm_try ${CMAKE_BINARY_DIR}/ccache_try)
  file(WRITE ${fm_try}.cc "int main() {}\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -E env CCACHE_RECACHE=1 ${FM_CCACHE} ${CMAKE_CXX_COMPILER} -c ${fm_try}.cc -o ${fm_try}.o
                  RESULT_VARIABLE fm_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT fm_fails EQUAL 0)
    message(WARNING "ccache does not work here (is its folder writable? CCACHE_DIR names another); "
                    "building without it")
    set(FM_CCACHE "")
  endif()
endif()
if(FM_CCACHE)
  # Paths below the source folder are hashed relative to it and the working directory is left out,
  # so that another clone finds what this one has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${FM_CCACHE})
endif()
find_program(FM_MOLD mold)
if(FM_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(fm_flags INTERFACE)
target_compile_options(fm_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Werror
                                          -ffp-contract=off -D_GLIBCXX_USE_CXX11_ABI=1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarm on "text" + std::string (GCC bug 105651).
  target_compile_options(fm_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(fm_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(FM_SANITIZE)
  # Sanitizers confuse the analysis behind some warnings; the plain build keeps them errors.
  target_compile_options(fm_flags INTERFACE -fsanitize=${FM_SANITIZE} -fno-omit-frame-pointer -g1
                                            -fno-sanitize-recover=all -Wno-error)
  target_link_options(fm_flags INTERFACE -fsanitize=${FM_SANITIZE})
endif()

# Sanitized, only what computes for long is optimized: these folders, without their tests. The others
# would take twice as long to compile, some 30 s each file that parses JSON.
function(fm_optimize_little name)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(FM_SANITIZE AND folder MATCHES "^(core|comm|kernels)$")
    target_compile_options(${name} PRIVATE -O1)
  elseif(FM_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()

# -O3 would take half as long again to compile tests.
function(fm_optimize_test name)
  if(FM_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()

# fm_library(name FOLDERS a b EXCEPT a/x.cc SOURCES c.cc LINKS other libraries): every source of these
# folders (which a build looks at anew) but those, and these.
function(fm_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;EXCEPT;SOURCES;LINKS" ${ARGN})
  foreach(folder ${ARG_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.cc)
    list(APPEND ARG_SOURCES ${found})
  endforeach()
  if(ARG_EXCEPT)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_EXCEPT})
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC fm_flags ${ARG_LINKS})
  fm_optimize_little(${name})
endfunction()

# fm_late_library(name USED_BY a library SOURCES a.cc LINKS libraries): loaded by core/process.h
# when it is needed. It shares no object with the program, only the layout of what is passed.
set(FM_LATE_FOLDER ${PROJECT_BINARY_DIR}/late)
set(CMAKE_BUILD_RPATH ${FM_LATE_FOLDER})
function(fm_late_library name)
  cmake_parse_arguments(ARG "" "USED_BY" "SOURCES;LINKS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/core/check.cc)
  target_link_libraries(${name} PRIVATE fm_flags ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${FM_LATE_FOLDER}
                                           INSTALL_RPATH "$ORIGIN")
  add_dependencies(${ARG_USED_BY} ${name})
endfunction()

# fm_test_library(name SOURCES a.cc LINKS other libraries): what several tests share.
function(fm_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS} fm_flags)
  fm_optimize_test(${name})
endfunction()

# fm_test(name SOURCES x_test.cc LINKS libraries LABELS unit) registers one ctest test. Its TempDir()
# is its own, whatever else runs on this machine. Limits are watchdogs, ten times what is usual: a
# busy machine makes no test red.
function(fm_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  if(FM_SANITIZE)
    math(EXPR ARG_TIMEOUT "8 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest_main fm_flags)
  fm_optimize_test(${name})
  add_test(NAME ${name} COMMAND ${name})
  set(scratch ${PROJECT_BINARY_DIR}/scratch/${name})
  file(MAKE_DIRECTORY ${scratch})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                                          ENVIRONMENT "OMP_NUM_THREADS=1;TEST_TMPDIR=${scratch}")
endfunction()
