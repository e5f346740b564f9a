// RowEpilogue: row-wise ops behind a product (softmax, its loss and gradient), with the
// element-wise ones before them, on a core: some whole rows of the product at a time in unified
// buffer. Immutable; any thread, with a core of its own.
#ifndef KEEL_BACKENDS_NPU_PLANNED_ROW_EPILOGUE_H
#define KEEL_BACKENDS_NPU_PLANNED_ROW_EPILOGUE_H

#include <vector>

#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/npu/planned/written_once.h"

namespace keel::npu {

class RowEpilogue {
 public:
  // Behind tiles of `tile_rows` rows. Where a tile has fewer columns than C (`gathers`), all
  // columns of its rows wait in unified buffer for the last.
  RowEpilogue(const AnchoredNode& product, const Preset& preset, int64_t tile_rows, bool gathers);

  // Says whether unified buffer holds at least one row with all that belongs to it, twice.
  bool fits() const noexcept { return rows_ > 0; }
  std::vector<Claim> claims() const;

  // Where the epilogue's claims stand: on `core`, from number `first` on.
  struct Place {
    Core& core;
    size_t first = 0;
  };
  // Rows that wait for their last columns. REQUIRES `gathers`.
  char* gathered(const Place& place) const { return place.core.at(place.first); }
  // Takes rows [row, row + rows) of C, which are at `values`, through the ops. Returns status bits.
  uint32_t run(const Place& place, void* const* args, const char* values, int64_t row, int64_t rows,
               std::vector<WrittenOnce>& written) const;
  std::vector<WrittenOnce> nothing_written() const;

 private:
  // An operand or result of the ops: so many bytes for each row of C, or the same ones for all
  // rows.
  struct Operand {
    size_t argument = 0;
    bool result = false;
    size_t row_bytes = 0, row_elements = 0;
    size_t shared_bytes = 0;
  };
  void add_operand(size_t argument, const Type& type, bool result);
  size_t claim_of(const Place& place, size_t operand, int buffer) const;
  void run_rows(const Place& place, void* const* args, const char* values, int64_t row,
                int64_t rows, int buffer, uint32_t* status,
                std::vector<WrittenOnce>& written) const;

  ProductEpilogue epilogue_;
  Shape c_;
  size_t value_row_bytes_, outputs_at_, arguments_;
  std::vector<Operand> operands_;
  size_t gathered_bytes_ = 0;
  int64_t rows_ = 0;  // together
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_ROW_EPILOGUE_H
