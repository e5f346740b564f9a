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
// a row of f32, taken as they are. One row in five is for the test, drawn at random, but the same
// ones for the same number of rows; the others are to train on, in a random order, so that the last
// ones are a sample of the table, too, however its rows are sorted. Throws what read_csv throws for
// finite numbers, and Error for fewer than two rows, for no column beside the classes, and for a
// class beyond that range, naming the line of the file.
KEEL_API LabelledSplits load_labelled_csv(const std::string& path, const std::string& label,
                                          int64_t max_bytes = 0);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_LABELLED_CSV_H
