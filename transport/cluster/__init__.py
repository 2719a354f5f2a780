"""What a cluster needs of the outside: its register in etcd, the addresses of one, and the machine's own etcd."""
