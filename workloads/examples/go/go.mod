module example.org/notes

go 1.18
