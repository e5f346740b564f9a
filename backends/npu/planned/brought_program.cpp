#include "keel/backends/npu/planned/brought_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace keel::npu {

BroughtProgram::BroughtProgram(TileProgram program, const Shape& shape,
                               std::vector<BroughtOperand> inputs,
                               std::vector<BroughtOperand> outputs, int64_t priced_instructions)
    : program_(std::move(program)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      elements_(shape.num_elements()) {
  size_t widest = 1;
  for (const BroughtOperand& o : inputs_) {
    widest = std::max(widest, size_of(o.type.dtype));
    const int64_t own = o.type.shape.num_elements();
    Source& source = sources_.emplace_back();
    source.scalar = own <= 1;
    if (own > 1 && own != elements_) {
      source.reader.emplace(o.type.shape, shape, size_of(o.type.dtype));
    }
  }
  for (const BroughtOperand& o : outputs_) widest = std::max(widest, size_of(o.type.dtype));
  if (priced_instructions > 1) between_ = 2 * widest;
}

size_t BroughtProgram::buffers_of(const BroughtOperand& operand, int buffers) const {
  return operand.argument ? static_cast<size_t>(buffers) : 1;
}

std::vector<Claim> BroughtProgram::claims(int64_t tile_elements, int buffers) const {
  std::vector<Claim> claims;
  for (size_t i = 0; i < inputs_.size() + outputs_.size(); ++i) {
    if (claims_nothing(i)) continue;
    const bool in = i < inputs_.size();
    const std::string name =
        (in ? "input " : "output ") + std::to_string(in ? i : i - inputs_.size()) + ", buffer ";
    for (size_t b = 0; b < buffers_of(operand(i), buffers); ++b) {
      claims.push_back({CoreBuffer::kUnified,
                        static_cast<size_t>(tile_elements) * size_of(operand(i).type.dtype),
                        name + std::to_string(b)});
    }
  }
  claims.push_back({CoreBuffer::kUnified, static_cast<size_t>(tile_elements) * between_,
                    "results between instructions"});
  return claims;
}

size_t BroughtProgram::claim_of(const Place& place, size_t operand_number) const {
  size_t claim = place.first;
  for (size_t i = 0; i < operand_number; ++i) {
    if (!claims_nothing(i)) claim += buffers_of(operand(i), place.buffers);
  }
  if (operand_number == inputs_.size() + outputs_.size()) return claim;
  return claim + (operand(operand_number).argument ? static_cast<size_t>(place.buffer) : 0);
}

char* BroughtProgram::input(const Place& place, size_t i) const {
  return place.core.at(claim_of(place, i));
}

char* BroughtProgram::output(const Place& place, size_t i) const {
  return place.core.at(claim_of(place, inputs_.size() + i));
}

void BroughtProgram::begin(const Place& place, int64_t count) const {
  for (size_t i = 0; i < inputs_.size() + outputs_.size(); ++i) {
    if (claims_nothing(i)) continue;
    const size_t bytes = static_cast<size_t>(count) * size_of(operand(i).type.dtype);
    place.core.refill(claim_of(place, i), bytes);
  }
}

void BroughtProgram::bring(const Place& place, void* const* args, int64_t begin, int64_t count,
                           int64_t at) const {
  if (begin < 0 || begin > elements_ - count) {
    place.core.fail("input", "the plan reads elements " + std::to_string(begin) + " to " +
                                 std::to_string(begin + count) + " of " +
                                 std::to_string(elements_));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (sources_[i].scalar || !inputs_[i].argument) continue;
    const size_t size = size_of(inputs_[i].type.dtype);
    char* to = input(place, i) + static_cast<size_t>(at) * size;
    const char* from = static_cast<const char*>(args[*inputs_[i].argument]);
    if (sources_[i].reader) {
      sources_[i].reader->read(from, to, begin, count);
    } else {
      std::memcpy(to, from + static_cast<size_t>(begin) * size, static_cast<size_t>(count) * size);
    }
  }
}

uint32_t BroughtProgram::compute(const Place& place, void* const* args, int64_t count) const {
  std::vector<void*> at;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    at.push_back(sources_[i].scalar && inputs_[i].argument ? args[*inputs_[i].argument]
                                                           : input(place, i));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) at.push_back(output(place, i));
  const size_t registers = claim_of(place, inputs_.size() + outputs_.size());
  if (place.core.bytes(registers) < program_.smallest_register_bytes()) {
    place.core.fail(name_of(CoreBuffer::kUnified),
                    "the planned tile has " + std::to_string(place.core.bytes(registers)) +
                        " bytes for results between instructions, which are at least " +
                        std::to_string(program_.smallest_register_bytes()));
  }
  const uint32_t status =
      program_.run_brought(at.data(), count, place.core.at(registers), place.core.bytes(registers));
  place.core.end_tile();
  return status;
}

void BroughtProgram::take_out(const Place& place, void* const* args, int64_t begin, int64_t count,
                              int64_t at, std::vector<WrittenOnce>& written) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].argument) continue;
    const size_t size = size_of(outputs_[i].type.dtype);
    written[i].write(place.core, begin, count);
    std::memcpy(static_cast<char*>(args[*outputs_[i].argument]) + static_cast<size_t>(begin) * size,
                output(place, i) + static_cast<size_t>(at) * size,
                static_cast<size_t>(count) * size);
  }
}

std::vector<WrittenOnce> BroughtProgram::nothing_written() const {
  std::vector<WrittenOnce> written;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    written.emplace_back("output " + std::to_string(i), outputs_[i].type.shape.num_elements());
  }
  return written;
}

}  // namespace keel::npu
