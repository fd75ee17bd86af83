// Ids and labels of lines, for tests/oracle/text_recipes.py.
//   recipe_lines FOLDER NOW inputs|answers [TEMPLATE]: a line of JSONL in, a line of JSON out:
//     {"documents": [{"ids": [...], "labels": [...]}]}   labels only where some are left out
//     {"error": TEXT}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/check.h"
#include "text/prepare/text_recipe.h"

int main(int count, char** words) {
  if (count < 4) return 2;
  try {
    const fm::prepare::Recipe recipe =
        fm::prepare::read_recipe(words[1], count > 4 ? words[4] : "",
                                 {.train_on_inputs = std::string(words[3]) == "inputs",
                                  .now = static_cast<std::time_t>(std::stoll(words[2]))});
    std::string line;
    while (std::getline(std::cin, line)) {
      std::vector<fm::data::Document> documents;
      const std::string problem = recipe.read_line(line, documents);
      nlohmann::json out;
      if (!problem.empty()) {
        out["error"] = problem;
      } else {
        out["documents"] = nlohmann::json::array();
        for (const fm::data::Document& each : documents) {
          out["documents"].push_back({{"ids", each.ids}, {"labels", each.labels}});
        }
      }
      std::cout << out.dump() << std::endl;
    }
  } catch (const fm::core::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
  return 0;
}
