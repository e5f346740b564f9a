// The schema of TensorFlow's graphs by the names of their fields, for the text form: what schema.h
// is for the wire form. Constants only.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_SCHEMA_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_SCHEMA_H

#include <cstdint>
#include <string_view>

namespace keel::graphdef {

struct TextMessage;

enum class TextType { kBool, kInteger, kDataType, kFloat, kDouble, kBytes, kMessage };

struct TextField {
  std::string_view name;
  uint32_t number;
  TextType type;
  const TextMessage* message = nullptr;  // of a message
};

struct TextMessage {
  const TextField* fields;
  size_t count;

  // Null where there is none of that name.
  const TextField* find(std::string_view name) const;
};

const TextMessage& graph_schema();
const TextMessage& meta_graph_schema();

// The number of "DT_FLOAT", "DT_INT32_REF" ...; -1 where there is none.
int64_t data_type_number(std::string_view name);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_SCHEMA_H
