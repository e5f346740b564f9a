// The report of `keel calibrate --measured` on a comparison: as text, as JSON and as a page. Pure
// functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_CALIBRATE_REPORT_H
#define KEEL_EXAMPLES_CLI_CALIBRATE_REPORT_H

#include <string>
#include <vector>

#include <keel/backends/npu/measured/compare.h>
#include <keel/backends/npu/measured/cross_validation.h>
#include <keel/backends/npu/measured/fit.h>
#include <keel/core/base/json.h>

namespace keel_cli {

// Throws keel::Error (kInvalidArgument) where the table's file has no row of that device.
void require_device(const std::string& device, const std::string& path,
                    const keel::npu::MeasuredTable& table);

// The figures of a class as the text and the page show them, under these columns.
const std::vector<std::string>& summary_columns();
std::vector<std::string> summary_cells(const keel::npu::ClassSummary& summary);

// The sums of op times, each with its classes behind it, under these columns; as text with the rows
// that most time is missing of; as JSON by name.
const std::vector<std::string>& sum_columns();
std::vector<std::vector<std::string>> sum_rows(const keel::npu::Comparison& comparison);
std::string sums_heading(const keel::npu::MeasuredTable& table);
std::string sums_text(const keel::npu::MeasuredTable& table,
                      const keel::npu::Comparison& comparison);
keel::Json sums_json(const keel::npu::Comparison& comparison);

std::string comparison_text(const keel::npu::MeasuredTable& table,
                            const keel::npu::Comparison& comparison);
std::string comparison_json(const keel::npu::MeasuredTable& table,
                            const keel::npu::Comparison& comparison);
std::string comparison_page(const std::string& path, const keel::npu::MeasuredTable& table,
                            const keel::npu::Comparison& comparison);

std::string fit_text(const std::string& start, const keel::npu::Fit& fit);
std::string cross_validation_text(const std::vector<keel::npu::CrossValidation>& list);
std::string cross_validation_json(const std::vector<keel::npu::CrossValidation>& list);

// "20 rows", or where some are equal "20 rows, 15 where equal ones are one".
std::string rows_text(const keel::npu::MeasuredTable& table);
// "MatMul 128,256;256,512 f16;f16".
std::string title_of(const keel::npu::MeasuredRow& row);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_CALIBRATE_REPORT_H
