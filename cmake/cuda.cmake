# The backend for NVIDIA's GPUs: FM_CUDA=AUTO takes it where nvcc and the headers are, ON insists, OFF
# leaves it out. Nothing of it is linked but the static runtime: programs start where no driver is.
set(FM_CUDA AUTO CACHE STRING "backend for NVIDIA's GPUs: AUTO, ON, OFF")
set_property(CACHE FM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FM_CUDA_BUILT OFF)
if(NOT FM_CUDA STREQUAL "OFF")
  # NVIDIA's other libraries are opened late: their headers are needed, by what stands in for them in
  # tests, too.
  find_path(FM_CUDA_HEADERS cublasLt.h HINTS /usr/local/cuda/include)
  find_path(FM_NCCL_HEADERS nccl.h HINTS /usr/local/cuda/include)
endif()
if(NOT FM_CUDA STREQUAL "OFF" AND NOT FM_SANITIZE)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real;100" CACHE STRING "of GPUs: 100 with PTX for newer ones")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND FM_CUDA_HEADERS AND FM_NCCL_HEADERS)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
      set(FM_CUDA_BUILT ON)
    endif()
  endif()
  if(FM_CUDA STREQUAL "ON" AND NOT FM_CUDA_BUILT)
    message(FATAL_ERROR "FM_CUDA=ON requires nvcc 13.0 or newer, cublasLt.h and nccl.h; install the CUDA "
                        "toolkit and NCCL, or set CMAKE_CUDA_COMPILER, FM_CUDA_HEADERS and "
                        "FM_NCCL_HEADERS (found: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, "
                        "${FM_CUDA_HEADERS}, ${FM_NCCL_HEADERS})")
  endif()
  # Who has nvcc expects GPUs.
  if(CMAKE_CUDA_COMPILER AND NOT FM_CUDA_BUILT)
    set(fm_missing "")
    if(NOT FM_CUDA_HEADERS)
      list(APPEND fm_missing "cublasLt.h (PyPI's nvidia-cublas; FM_CUDA_HEADERS names its folder)")
    endif()
    if(NOT FM_NCCL_HEADERS)
      list(APPEND fm_missing "nccl.h (PyPI's nvidia-nccl-cu13; FM_NCCL_HEADERS names its folder)")
    endif()
    if(CMAKE_CUDA_COMPILER_VERSION AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
      list(APPEND fm_missing "nvcc 13.0 or newer (it is ${CMAKE_CUDA_COMPILER_VERSION})")
    endif()
    list(JOIN fm_missing ", " fm_missing)
    message(WARNING "this build will not use GPUs, although nvcc is here (${CMAKE_CUDA_COMPILER}): missing "
                    "${fm_missing}; docs/gpu.md says more, FM_CUDA=OFF leaves GPUs out without a word")
  endif()
endif()
# Attention by cuDNN, where its headers are and those of its front end, which scripts/setup.sh brings.
set(FM_CUDNN_BUILT OFF)
if(FM_CUDA_BUILT)
  find_path(FM_CUDNN_HEADERS cudnn.h HINTS /usr/local/cuda/include)
  find_path(FM_CUDNN_FRONTEND cudnn_frontend.h HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn_frontend/include)
  if(FM_CUDNN_HEADERS AND FM_CUDNN_FRONTEND)
    set(FM_CUDNN_BUILT ON)
  else()
    message(WARNING "attention on GPUs will be at about half the speed: missing cudnn.h (PyPI's "
                    "nvidia-cudnn-cu13; FM_CUDNN_HEADERS names its folder) or cudnn_frontend.h (PyPI's "
                    "nvidia-cudnn-frontend, which scripts/setup.sh brings); docs/gpu.md says more (found: "
                    "${FM_CUDNN_HEADERS}, ${FM_CUDNN_FRONTEND})")
  endif()
endif()
if(FM_CUDA_BUILT)
  find_package(CUDAToolkit 13.0 REQUIRED)
  if(FM_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  # What CMake 3.25 does not know of nvcc 13.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  # 1675: GCC's pragmas. A kernel that spills registers is an error.
  add_library(fm_cuda_flags INTERFACE)
  target_compile_options(fm_cuda_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -diag-suppress=1675 --compress-mode=size
                               -Werror=all-warnings -Xptxas=--warn-on-spills -Xcompiler=-Wall,-Wextra>)
  target_include_directories(fm_cuda_flags INTERFACE ${PROJECT_SOURCE_DIR})
endif()
message(STATUS "FM_CUDA: ${FM_CUDA}, built: ${FM_CUDA_BUILT}, cuDNN: ${FM_CUDNN_BUILT}")
