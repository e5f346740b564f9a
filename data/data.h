// All of data: formats, pipelines, feeding.
#ifndef KEEL_DATA_DATA_H
#define KEEL_DATA_DATA_H

#include "keel/data/feed/feed.h"
#include "keel/data/formats/cifar10.h"
#include "keel/data/formats/csv.h"
#include "keel/data/formats/digits.h"
#include "keel/data/formats/idx.h"
#include "keel/data/formats/labelled_csv.h"
#include "keel/data/formats/labelled_images.h"
#include "keel/data/formats/mnist.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/image_augmentation.h"
#include "keel/data/pipeline/item.h"
#include "keel/data/pipeline/iterator.h"

#endif  // KEEL_DATA_DATA_H
