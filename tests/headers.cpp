// Where the headers that all tests include are compiled once.
int main() {}
