#!/usr/bin/env bash
# check_sanitized.sh KINDS FOLDER [TEST_FOLDER...]: builds the torch-free tests (of those folders, else
# of all) with -fsanitize=KINDS in FOLDER and runs them there.
set -euo pipefail
cd "$(dirname "$0")/.."
kinds=$1
folder=$2
shift 2
FM_SANITIZE=$kinds FM_TEST_FOLDERS="$*" scripts/build.sh --tests "$folder"
# A size that no memory has is an error of the program's own, with its exit code.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1
# Second looks at the largest worlds and limits that are a number of operations take long under
# sanitizers on 2 cores; they run elsewhere.
slow='*.ATracedOneMovesTheSame/4:*.ATracedOneMovesTheSame/5:*/RanksBAAACCBB:*/RanksAAAAABB'
slow+=':Template.HoldsNoMoreInAllItsValues:Template.EndsWhereItWouldNotEnd'
slow+=':Answers.OfALongConversationThatIsRewrittenGetTextsUpToALimit'
slow+=':Page.AMillionStepsStayBelowAMegabyte:*.SharedMemoryMovesTheSame/5'
slow+=':Sizes/ThreadWorld.EveryVerbMovesWhatItSaysAndSumsByTheTree/5'
slow+=':GradStore.CanonicalOrderOfAnyNumberOfSlotsIsOneTreeOnAnyNumberOfRanks'
# Damaged frames, long lines and files of ids are a matter of addresses, verbs one of threads: four
# ranks meet in every way that five do.
case $kinds in
  thread)
    slow+=':TcpFrames.DamagedOnesAreRefusedOrReadWithoutMoreMemoryThanTheySend'
    slow+=':PrepareText.ALineHasALimit:PrepareText.LongLinesAndNamesAreWhole'
    slow+=':WriteTokens.MegatronsFilesHaveTheDocumentsOfTheRunsCache'
    slow+=':WriteTokens.AFlatFileHasTheIdsOfTheRunsCache'
    slow+=':*/RanksAAABBB:*/RanksABAB:*ThreadWorld.*/4:*TcpWorld.EveryVerb*/2'
    slow+=':*.ATracedOneMovesTheSame/3:*Staged.EveryVerb*/3:*NcclOf.EveryVerb*/3'
    ;;
  *) slow+=':*World.*' ;;
esac
export GTEST_FILTER="-$slow"
# ThreadSanitizer wants the address space without much randomness. The mutation test tries every
# damage to every program: arithmetic on values that validate_test covers, and far too slow here.
exec setarch --addr-no-randomize ctest --test-dir "$folder" --output-on-failure --no-tests=error \
  -L unit -E '^validate_mutation_test$' -j "$(nproc)"
