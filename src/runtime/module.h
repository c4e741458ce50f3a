// SPDX-License-Identifier: Apache-2.0
// A shared object of generated code. Never changes once loaded, may be shared by threads, and is
// unloaded with its last owner.
#ifndef HEALD_RUNTIME_MODULE_H
#define HEALD_RUNTIME_MODULE_H

#include "runtime/kernel.h"

typedef struct Module Module;

// HEALD_IO with the file's name if it cannot be loaded.
heald_status module_open(const char *path, Module **out, Error *e);
Module *module_retain(Module *m);
void module_release(Module *m); // NULL is fine
const char *module_path(const Module *m);
// HEALD_NOT_FOUND with the names of symbol and file. Valid as long as the module.
heald_status module_entry(const Module *m, const char *symbol, CpuEntry **out, Error *e);

#endif
