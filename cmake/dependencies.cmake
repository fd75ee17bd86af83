# LibTorch comes from the PyPI wheel (scripts/setup.sh unpacks it); the rest from Debian.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(zstd REQUIRED)
# Regular expressions and normal forms of tokenizers: one header and one library each.
foreach(name IN ITEMS onig utf8proc)
  find_library(FM_LIBRARY_${name} ${name} REQUIRED)
  add_library(fm_${name} INTERFACE)
  target_link_libraries(fm_${name} INTERFACE ${FM_LIBRARY_${name}})
endforeach()
# Linked into the programs where the archive is there: an installed tree needs no package for it.
find_library(FM_LIBRARY_yaml NAMES libyaml.a yaml REQUIRED)
add_library(fm_yaml INTERFACE)
target_link_libraries(fm_yaml INTERFACE ${FM_LIBRARY_yaml})
# Disks are read and written by io_uring where its archive is there, else by threads.
find_library(FM_LIBRARY_uring NAMES liburing.a)
find_path(FM_URING_HEADERS liburing.h)
set(FM_URING_BUILT OFF)
if(FM_LIBRARY_uring AND FM_URING_HEADERS)
  # liburing 2.2 or newer.
  file(STRINGS ${FM_URING_HEADERS}/liburing.h FM_URING_TABLES REGEX "io_uring_register_buffers_sparse")
  if(FM_URING_TABLES)
    set(FM_URING_BUILT ON)
  endif()
endif()
message(STATUS "io_uring: ${FM_URING_BUILT} ${FM_LIBRARY_uring}")
if(FM_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

if(NOT FM_SANITIZE)
  set(FM_TORCH_DIR "$ENV{TORCH_DIR}" CACHE PATH "folder `torch` of the wheel (holds include/, lib/)")
  if(NOT FM_TORCH_DIR)
    set(FM_TORCH_DIR "${PROJECT_SOURCE_DIR}/.deps/torch")
  endif()
  if(NOT EXISTS "${FM_TORCH_DIR}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "LibTorch is required; run scripts/setup.sh or set TORCH_DIR to the wheel's "
                        "torch folder (FM_TORCH_DIR=${FM_TORCH_DIR})")
  endif()
  # A CPU build links libtorch_cpu and libc10 only; CUDA runtime and CUPTI beside it are loaded.
  add_library(fm_torch INTERFACE)
  target_include_directories(fm_torch SYSTEM INTERFACE ${FM_TORCH_DIR}/include
                                                       ${FM_TORCH_DIR}/include/torch/csrc/api/include)
  target_link_libraries(fm_torch INTERFACE ${FM_TORCH_DIR}/lib/libtorch_cpu.so
                                           ${FM_TORCH_DIR}/lib/libc10.so)
  target_link_options(fm_torch INTERFACE -Wl,--allow-shlib-undefined)

  find_package(MPI REQUIRED COMPONENTS C)
  target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX)  # its C interface only
  # oneDNN is loaded at run time (kernels/gemm/onednn.cc); only its header is needed here.
  find_path(FM_DNNL_HEADER oneapi/dnnl/dnnl.h REQUIRED)
  set(fm_dnnl_version "")
  if(EXISTS ${FM_DNNL_HEADER}/oneapi/dnnl/dnnl_version.h)
    file(READ ${FM_DNNL_HEADER}/oneapi/dnnl/dnnl_version.h fm_dnnl_version)
  endif()
  if(NOT fm_dnnl_version MATCHES "DNNL_VERSION_MAJOR 2[^0-9]")
    message(FATAL_ERROR "oneDNN 2 is required, as Debian 12 and Ubuntu 22.04 have it; newer systems have "
                        "another: build in an image (docs/install.md; ${FM_DNNL_HEADER})")
  endif()
  # By flag and not by library path: LibTorch's folder holds another libgomp.so.1, and CMake would
  # warn about the two at every program.
  add_library(fm_openmp INTERFACE)
  target_compile_options(fm_openmp INTERFACE -fopenmp)
  target_link_options(fm_openmp INTERFACE -fopenmp)
endif()
