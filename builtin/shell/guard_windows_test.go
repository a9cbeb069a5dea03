package shell

func waits(*guard) bool { return false }
