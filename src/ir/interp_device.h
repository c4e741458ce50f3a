// SPDX-License-Identifier: Apache-2.0
// The interpreter as a device of the runtime, "interp": a kernel's stage 0 has its Kernel as
// handle, and there are no others.
#ifndef HEALD_IR_INTERP_DEVICE_H
#define HEALD_IR_INTERP_DEVICE_H

#include "ir/kernel.h"
#include "runtime/device.h"

extern const DeviceOps device_interp;

#endif
