// Says from which sources the library was compiled.
#include "module.h"

CLOZELINE_API const char* clozeline_sources() { return CLOZELINE_SOURCES; }
