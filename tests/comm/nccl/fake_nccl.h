// What tests tell the library that stands for libnccl.so.2 (fake_nccl.cc), by functions that they
// find in it like those of NCCL. Its ranks are threads of one process.
#pragma once

extern "C" {

// How the library puts a task into a stream, and what a kernel sees where the host's pointer
// points. Before the first verb.
void fme_fake_nccl_run_on(void (*run)(void* stream, void (*task)(void*), void* data));
void fme_fake_nccl_see(void* (*see)(void* stream, const void* pointer));
// The card of the thread; -1 (as at first): one of its own.
void fme_fake_nccl_device(int device);
// From now on, until forget (which frees the cards, too): what happens to `rank` of every
// communicator at its verb number `at_call` (from 0; groups of calls count as one):
//   "hang"        the verb never ends, until its communicator is aborted
//   "fail"        the call answers ncclSystemError
//   "async"       the verb never ends, and ncclCommGetAsyncError answers ncclRemoteError
// without a verb:
//   "init_fail"   ncclCommInitRankConfig ends with ncclSystemError, asynchronously
//   "abort_hang"  ncclCommAbort returns at forget
//   "version"     ncclGetVersion answers at_call
void fme_fake_nccl_fault(const char* what, int rank, int at_call);
void fme_fake_nccl_forget();
// Times that a rank exchanged its first message with a peer of a communicator behind its first verb
// there, since forget: NCCL connects the two then, while its callers wait.
int fme_fake_nccl_late_pairs();
// First verbs of communicators that were called while another verb was under way on their card,
// since forget: what NCCL does to connect then may wait for the verb.
int fme_fake_nccl_crowded_starts();
// Communicators that are neither aborted nor destroyed.
int fme_fake_nccl_alive();
}
