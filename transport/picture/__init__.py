"""What is going on in a broker, for people who look: samples of its queues, rates, and who holds back whom."""
