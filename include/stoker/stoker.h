/* SPDX-License-Identifier: Apache-2.0
 * All of the public API. */
#ifndef STOKER_STOKER_H
#define STOKER_STOKER_H

#include "stoker/audio.h"
#include "stoker/batch.h"
#include "stoker/batching.h"
#include "stoker/cache.h"
#include "stoker/catalog.h"
#include "stoker/context.h"
#include "stoker/graph.h"
#include "stoker/image.h"
#include "stoker/index.h"
#include "stoker/inspect.h"
#include "stoker/machine.h"
#include "stoker/nuscenes.h"
#include "stoker/pack.h"
#include "stoker/pipeline.h"
#include "stoker/status.h"
#include "stoker/storage.h"
#include "stoker/tensor.h"
#include "stoker/video.h"
#include "stoker/watch.h"

#endif
