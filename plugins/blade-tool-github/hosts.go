package main

// hosts are where the plugin may be allowed to send requests and the token: a
// manifest's hosts are fixed when the plugin is built. Add the name of your own
// GitHub Enterprise Server and build it anew; the setting baseUrl then says which
// of them is used, and the user's grant is needed all the same.
var hosts = []string{"api.github.com", "*.ghe.com"}
