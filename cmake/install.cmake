# `cmake --install build --prefix DIR` gives a tree that runs without the build tree: programs,
# LibTorch's CPU libraries in the layout of the wheel (their RPATHs are relative), configurations.
# OpenMPI and oneDNN stay Debian's packages.
if(FM_SANITIZE OR NOT TARGET fmengine-train)
  return()
endif()
set(programs fmengine-train fmengine-generate)
install(TARGETS ${programs} RUNTIME DESTINATION bin)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH
                                             "$ORIGIN/../lib/fmengine/torch/lib")
foreach(library libtorch_cpu.so libc10.so libgomp.so.1)
  if(EXISTS ${FM_TORCH_DIR}/lib/${library})
    install(FILES ${FM_TORCH_DIR}/lib/${library} DESTINATION lib/fmengine/torch/lib)
  endif()
endforeach()
cmake_path(GET FM_TORCH_DIR PARENT_PATH wheels)
foreach(library libcudart.so.13 libcupti.so.13)
  if(EXISTS ${wheels}/nvidia/cu13/lib/${library})
    install(FILES ${wheels}/nvidia/cu13/lib/${library} DESTINATION lib/fmengine/nvidia/cu13/lib)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION share/fmengine)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/fmengine)
