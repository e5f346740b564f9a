// A CSV file as a set with classes: one column holds the classes, all others the numbers that they
// go by. Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_LABELLED_CSV_H
#define KEEL_DATA_FORMATS_LABELLED_CSV_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"
#include "keel/data/formats/labelled_images.h"

namespace keel {

// The file begins with the columns' names. Classes are whole numbers from 0 to 255, as many as the
// largest says. Where every number of the other columns is whole and from 0 to 255 they are bytes
// (u8), as of pixels: a square image where their count is a square, else a row. Otherwise they are
// a row of f32, taken as they are. Every fifth row, drawn by lot and always the same ones for the
// same number of rows, is for the test. Throws what read_csv throws, and Error for fewer than two
// rows, a class beyond that range, and numbers that are not finite, naming the row (from 1).
KEEL_API LabelledSplits load_labelled_csv(const std::string& path, const std::string& label,
                                          int64_t max_bytes = 0);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_LABELLED_CSV_H
