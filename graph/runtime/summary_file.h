// SummaryFile: numbers of a training by step, in a table (.csv) or an array of objects (.json) that
// other programs read. Rows are written at once, so the file is whole after each, also where one
// cannot be written. One thread. Internal to graph/runtime: SummaryHook.
#ifndef KEEL_GRAPH_RUNTIME_SUMMARY_FILE_H
#define KEEL_GRAPH_RUNTIME_SUMMARY_FILE_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

class SummaryFile {
 public:
  // Opens the file, or makes an empty one, and keeps it for itself: of this process or another
  // nobody else writes it meanwhile. Of a file that is there the rows up to the step `start` stay,
  // and the others go with the first add(), or with finish(). Throws Error for another ending, for
  // a file that cannot be opened or that another one holds, and for one with rows to keep that is
  // no such file or has other columns.
  SummaryFile(const std::string& path, std::vector<std::string> columns, int64_t start);
  ~SummaryFile();
  // Throws Error for a path whose ending is that of neither form.
  static void require_form(const std::string& path);
  SummaryFile(const SummaryFile&) = delete;
  SummaryFile& operator=(const SummaryFile&) = delete;

  // One value for each column. Throws Error where it cannot be written; then the rows before it
  // are all that the file holds.
  void add(int64_t step, std::span<const double> values);
  // Behind the last row, of which there may be none. Throws likewise.
  void finish();

 private:
  enum class Form { kTable, kObjects };

  std::string head() const;
  std::string row(int64_t step, std::span<const double> values) const;
  void lock() const;
  int64_t kept_bytes(int64_t start) const;
  std::string begin();
  void append(std::string bytes);
  int end_behind_rows();
  int write(std::string_view bytes);
  [[noreturn]] void fail(int code) const;
  [[noreturn]] static void refuse(const std::string& path, const std::string& expected,
                                  const std::string& got);

  const std::string path_;
  const std::vector<std::string> columns_;
  Form form_ = Form::kTable;
  int descriptor_ = -1;
  int64_t end_ = 0;    // of the rows; 0: there is not even a head
  bool cut_ = false;   // what stood behind them is gone
  bool empty_ = true;  // there is no row yet
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SUMMARY_FILE_H
