// Plays one case with Qpid Proton for C++; `suite.py` starts it.
#include <exception>
#include <iostream>

#include "cases.hpp"

int main(int count, char** arguments) {
    if (count != 2) {
        std::cerr << "usage: suite <case>\n";
        return 2;
    }
    try {
        play(arguments[1], setting::from_environment());
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
