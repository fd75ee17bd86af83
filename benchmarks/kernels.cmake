if(NOT FM_SANITIZE)
  add_executable(kernels_benchmark kernels_benchmark.cc)
  target_link_libraries(kernels_benchmark PRIVATE fm_flags fm_model fm_gemm fm_kernels
                                                  benchmark::benchmark)
endif()
