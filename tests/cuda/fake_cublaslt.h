// What tests ask of the fake libcublasLt.so.13 (tests/cuda/fake_cublaslt.cc), by dlsym.
//
// The environment variable FME_FAKE_CUBLASLT names what fails: "create", "create_memory",
// "heuristic", "none_found" (no algorithm) or "matmul".
#pragma once

extern "C" {

// How often "create", "heuristic" or "matmul" was called, and how many products had "odd_strides":
// rows of a matrix begin elsewhere than at multiples of 16 bytes.
long fme_fake_calls(const char* call);
// Handles and descriptors that nobody has destroyed.
long fme_fake_living();
// Its place among the answers for the last product; -1 before the first.
int fme_fake_last_algorithm();

// A stream that is null multiplies at once. Any other asks: task(data) in the stream's time, and
// drop(data) once it is done, or will never be.
using fme_fake_run = void (*)(void* stream, void (*task)(void*), void* data, void (*drop)(void*));
void fme_fake_run_on(fme_fake_run run);
// Where the CPU finds what a stream's device has at an address. Asked when a product is queued.
using fme_fake_translation = const void* (*)(void* stream, const void* pointer);
void fme_fake_translate(fme_fake_translation translate);

}  // extern "C"
