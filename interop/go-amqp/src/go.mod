module ferrybus/interop/go-amqp

go 1.18

require github.com/Azure/go-amqp v1.0.2

replace github.com/Azure/go-amqp => ../build/go-amqp
