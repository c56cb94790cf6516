// What every exported function has: C linkage, visible in the library. None of them allocates, throws, or checks
// bounds; the Python side checks.
#pragma once
#include <cstdint>

#define CLOZELINE_API extern "C" __attribute__((visibility("default")))

// Compile a function once more for processors with wide vectors; the loader takes the best one for the machine, so that
// one library runs everywhere. The result cannot depend on the choice: floats are neither contracted nor reordered.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(CLOZELINE_ONE_PROCESSOR)
#define CLOZELINE_FOR_EACH_PROCESSOR \
  CLOZELINE_API __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLOZELINE_FOR_EACH_PROCESSOR CLOZELINE_API
#endif
