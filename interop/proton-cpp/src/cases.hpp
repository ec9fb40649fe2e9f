#pragma once

#include <string>

#include "client.hpp"

// Plays one case; throws when it fails.
void play(const std::string& name, const setting& where);

// The case of `largest.cpp`.
void largest_message(const setting& where);
