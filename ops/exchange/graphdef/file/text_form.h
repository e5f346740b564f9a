// The text form of protocol buffers, "node { name: 'x' op: 'Const' }", made into their wire form,
// so that one reader knows what a graph's fields mean. Fields that the reader of graphs does not
// look at are checked for their syntax and left out. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_FORM_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_FORM_H

#include <string>
#include <string_view>

namespace keel::graphdef {

// The outermost message that a text is of.
enum class MessageKind { kGraph, kMetaGraph };

// Says whether these bytes begin as text does, with a field's name and ':' or '{'. Behind a line's
// end, which is the first tag of a graph's wire form as well, text goes on without control
// characters.
bool is_text_form(std::string_view bytes);

// Throws Error naming `source` and the line for text that is none, for messages that nest deeper
// than 64 levels, and for fields of another type than the schema's.
std::string wire_form(std::string_view text, const std::string& source, MessageKind kind);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_TEXT_FORM_H
