// Reads lines "MODEL_TYPE KEY" and answers "known" or "unknown", for tests/oracle/config_keys.py.
#include <cstdio>
#include <iostream>
#include <string>

#include "model/families/known_keys.h"

int main() {
  std::string type;
  std::string key;
  while (std::cin >> type >> key) {
    std::puts(fm::model::is_known_key(type, key) ? "known" : "unknown");
  }
  return 0;
}
