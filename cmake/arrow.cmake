# Parquet and Arrow files are read by Apache Arrow: FM_ARROW=AUTO builds libfm_arrow.so where the
# headers and libraries of PyPI's wheel pyarrow are, ON insists, OFF leaves it out. Nothing else links
# it: programs start, and read all other formats, where it is not.
set(FM_ARROW AUTO CACHE STRING "Parquet and Arrow files: AUTO, ON, OFF")
set_property(CACHE FM_ARROW PROPERTY STRINGS AUTO ON OFF)
set(FM_ARROW_DIR "" CACHE PATH "folder `pyarrow` of the wheel (holds include/ and libarrow.so.*)")
set(FM_ARROW_BUILT OFF)
if(NOT FM_ARROW STREQUAL "OFF" AND NOT FM_SANITIZE)
  file(GLOB environments "${PROJECT_SOURCE_DIR}/.deps/oracle/lib/python3*/site-packages/pyarrow")
  foreach(folder IN ITEMS "${FM_ARROW_DIR}" "${PROJECT_SOURCE_DIR}/.deps/arrow/pyarrow" ${environments})
    file(GLOB libraries "${folder}/libarrow.so.*" "${folder}/libparquet.so.*")
    list(LENGTH libraries count)
    if(NOT FM_ARROW_BUILT AND folder AND count EQUAL 2 AND EXISTS "${folder}/include/arrow/api.h")
      set(FM_ARROW_BUILT ON)
      set(FM_ARROW_INCLUDES "${folder}/include")
      set(FM_ARROW_LIBRARIES ${libraries})
    endif()
  endforeach()
endif()
if(FM_ARROW STREQUAL "ON" AND NOT FM_ARROW_BUILT)
  message(FATAL_ERROR "FM_ARROW=ON requires the wheel pyarrow; run scripts/setup.sh --arrow, or set "
                      "FM_ARROW_DIR to its folder (FM_ARROW_DIR=${FM_ARROW_DIR})")
endif()
message(STATUS "FM_ARROW: ${FM_ARROW}, built: ${FM_ARROW_BUILT} ${FM_ARROW_INCLUDES}")
