// The columns of a table beside that of its classes: a model knows them by their places, and a
// table for it may have them in other ones. Pure functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_TABLE_COLUMNS_H
#define KEEL_EXAMPLES_CLI_MODEL_TABLE_COLUMNS_H

#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/model/saved_model.h"

namespace keel_cli {

// Notes the names of the columns of `data`, in their order, in a file's metadata, if it is a table
// whose names a file can hold.
void add_columns(const std::string& data, const std::string& label,
                 std::map<std::string, std::string>& metadata);

// Moves the columns of a table to where the training of the file had those of their names. Throws
// keel::Error that names the first column which differs where the names are others. Leaves sets
// alone that are no table, and those of files that name no columns.
void arrange_columns(const SavedModel& saved, const std::string& data, const std::string& label,
                     keel::LabelledSplits& splits);

// Throws keel::Error that names --label where another column than that of the file's classes is
// given and the table has that one, too. In a table that lacks it the classes may have another
// name.
void require_own_label(const std::optional<std::string>& own, const std::string& path,
                       const std::string& data, const std::string& label);

// For weights that a training begins with: throws keel::Error where the table has the columns of
// the file in another order. Those of other names are another table, to be learnt anew.
void require_order_of_columns(const SavedModel& saved, const std::string& data,
                              const std::string& label);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_TABLE_COLUMNS_H
