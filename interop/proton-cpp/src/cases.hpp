#pragma once

#include <string>

#include "client.hpp"

// Plays one case; throws when it fails.
void play(const std::string& name, const setting& where);

// The cases of `largest.cpp` and `teams.cpp`.
void largest_message(const setting& where);
void namespaces(const setting& where);
